"""Which SGLang servers run on a machine, told from what its processes say: command lines, titles, outputs, sockets.

Command lines hold secrets. Only allow-listed arguments leave discovery, and the four places where a server is read: its
port, the socket of its forward passes, the folder of its request records and the file of its log.
"""
