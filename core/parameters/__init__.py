"""Policy parameters as candidates: proposed in generations, kept small, judged by returns."""
