"""What stands between the network and the screens: who may speak to the server, what it answers, what it keeps."""
