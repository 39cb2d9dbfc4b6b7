"""The two controls: every column by itself, alone or by class of the label."""
