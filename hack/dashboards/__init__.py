"""A look at the dashboards without Grafana: their queries asked of a real Prometheus, and drawn as one page."""
