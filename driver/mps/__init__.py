"""MPS control daemons as processes of this node: started, asked, looked after, found again, stopped."""
