"""An allocated claim made into prepared devices, exactly once, across crashes. Does not know the API server or gRPC."""
