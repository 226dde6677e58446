# A tool written in Python: one GET with the standard library, through the proxy that HTTPS_PROXY names.
import sys
import urllib.request

request = urllib.request.Request(sys.argv[1])
if len(sys.argv) > 2:
    request.add_header("Toolgate-Authorization", "Bearer " + sys.argv[2])
with urllib.request.urlopen(request, timeout=30) as response:
    print(response.status, response.read().decode())
