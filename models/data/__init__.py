"""The text that the demo models are trained on, generated from fixed seeds."""
