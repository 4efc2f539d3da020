"""Networks that vote with trees."""
