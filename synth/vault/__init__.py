"""The vault: encrypted tables, uploads on their way in, and the keys of one installation."""
