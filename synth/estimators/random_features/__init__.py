"""Private regression and classification on linear and Fourier features of declared columns (after Liao 2024)."""
