# A tool written in Python: prints the lines of a stream as they come, through the proxy that the environment names.
import sys
import urllib.request

with urllib.request.urlopen(sys.argv[1], timeout=30) as response:
    for line in response:
        sys.stdout.write(line.decode())
        sys.stdout.flush()
