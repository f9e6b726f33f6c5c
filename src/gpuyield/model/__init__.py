"""The nouns all rooms share: frozen values without I/O."""
