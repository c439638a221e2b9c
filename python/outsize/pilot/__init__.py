"""`outsize pilot`: what the policy `pilot` learns, apart from running."""
