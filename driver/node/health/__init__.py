"""The node's sick GPUs: who listens, who keeps it, who has it published, and who tells the claims.

``driver.health`` judges, this package acts. Two entry points, which know nothing of each other:

- ``watch.HealthWatch`` hears of troubles (``listener``, with ``watched`` and ``looks`` for one opening of NVML), keeps them
  (``keeper``) and has the devices published with them (``relay``).
- ``claim_writer.ClaimHealthWriter`` is told of the devices that were published, and writes into the claims what
  ``claim_conditions`` says (``claim_book`` says when; ``claim_status_api`` is the way to the API server).
"""
