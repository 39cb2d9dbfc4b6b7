"""The file to codes, in one contract: the codes of line i follow from line i and the schema."""
