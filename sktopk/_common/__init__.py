"""What every part stands on: what users pass in, checked; files, warnings, extras."""
