"""What Horovod has for TensorFlow's data service."""
