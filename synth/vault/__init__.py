"""The vault: encrypted tables, arriving uploads, and the keys of one installation."""
