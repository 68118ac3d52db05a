"""Rival methods, each as well implemented as we can."""
