import json, os, sys

def listing(path):
    try:
        return sorted(os.listdir(path))
    except OSError as e:
        return [str(e)]

def answer(method):
    if method == "initialize":
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "report", "version": "1"}}
    if method == "tools/list":
        return {"tools": [{"name": "report", "inputSchema": {"type": "object"}}]}
    if method == "tools/call":
        report = {"env": dict(os.environ), "cwd": listing("."), "home": listing(os.path.expanduser("~")),
                  "place": os.getcwd(), "workspace": os.path.exists("/workspace")}
        return {"content": [{"type": "text", "text": json.dumps(report)}]}
    return {}

for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": answer(request["method"])}), flush=True)
