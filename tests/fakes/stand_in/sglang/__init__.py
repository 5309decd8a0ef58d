"""Stands in for the package of that name: processes, streams, sockets and titles as SGLang's, with nothing behind."""
