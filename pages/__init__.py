"""The screens, one file each; no logic lives here."""
