"""Methods that improve policies of exact models, and the door that certifies what they return."""
