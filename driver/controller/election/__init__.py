"""One controller leads, by a Lease: at most one writes, as far as a lease can promise that.

``elector.Elector`` takes one step at a time and says whether we may write; ``thread`` lets it step for as long as the process
lives; ``lease`` (pure) is the object and what may be written into it, ``lease_api`` reads and writes it.
"""
