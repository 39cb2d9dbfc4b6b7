"""dp-hp: noisy mean embeddings of Hermite features train a network."""
