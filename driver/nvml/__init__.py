"""The one door to the GPUs: one protocol with a real and a mock backend. Does not know Kubernetes."""
