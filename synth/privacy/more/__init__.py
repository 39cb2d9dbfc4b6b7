"""Questions that only some generators ask; each file has its bound beside its proof."""
