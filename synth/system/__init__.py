"""What the machine lends a program: devices, disks, paths, private files, threads and confined processes."""
