"""Get more from the GPUs you have before you buy more."""
