"""How collecting and learning are run together."""
