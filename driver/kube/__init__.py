"""The only HTTP in the program: credentials, requests, watches. Does not know what the objects mean."""
