"""Input checks, files, warnings and optional dependencies, shared by all subpackages."""
