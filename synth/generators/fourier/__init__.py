"""dp-merf: one noisy mean embedding of random Fourier features trains a network."""
