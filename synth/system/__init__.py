"""What the machine lends a program: processors, devices and threads, private places on disk, confined processes."""
