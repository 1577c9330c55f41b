"""What is measured, a file a subject. A measure takes the stage and gives figures."""
