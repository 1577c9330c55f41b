"""A fleet without a cluster: arrivals, departures, a queue, and the allocator. Time is the list's own; nothing here waits."""
