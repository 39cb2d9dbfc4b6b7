"""The layer between the network and the screens: who may talk to the server, what it answers, what it keeps."""
