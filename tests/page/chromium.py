# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven through the pipe of its DevTools protocol."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time


def program():
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    def __init__(self):
        self.folder = tempfile.mkdtemp()
        read_there, self.to = os.pipe()
        self.back, write_there = os.pipe()

        def connect():  # the protocol's descriptors are 3 and 4
            high = os.dup(read_there), os.dup(write_there)
            spare = os.dup(high[0]), os.dup(high[1])
            os.dup2(spare[0], 3)
            os.dup2(spare[1], 4)

        self.process = subprocess.Popen(
            [program(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--remote-debugging-pipe", "--user-data-dir=" + self.folder, "about:blank"],
            preexec_fn=connect, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(read_there)
        os.close(write_there)
        self.count, self.left, self.events, self.session = 0, b"", [], None
        pages = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        self.session = self.call("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def receive(self):
        while b"\0" not in self.left:
            more = os.read(self.back, 1 << 16)
            if not more:
                raise EOFError("the browser has ended")
            self.left += more
        message, self.left = self.left.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session and not method.startswith("Target."):
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def run(self, program_text):
        answer = self.call("Runtime.evaluate", expression=program_text, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{program_text}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, condition, seconds=30):
        """Seconds until a condition of the page holds."""
        start = time.monotonic()
        while not self.run(f"Boolean({condition})"):
            if time.monotonic() - start > seconds:
                raise TimeoutError(condition)
            time.sleep(0.01)
        return time.monotonic() - start

    def open(self, path):
        self.events.clear()
        start = time.monotonic()
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        self.wait("document.readyState === 'complete'")
        return time.monotonic() - start

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def theme(self, dark):
        value = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": value}])

    def picture(self):
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def printed(self):
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def complaints(self):
        """Exceptions, console output, the browser's own log, and requests beside the page's own file."""
        self.run("0")
        wrong = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Page.javascriptDialogOpening")
        asked = [e for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [e for e in self.events if e.get("method") in wrong] + asked[1:]

    def close(self):
        self.process.terminate()
        self.process.wait()
        os.close(self.to)
        os.close(self.back)
        shutil.rmtree(self.folder, ignore_errors=True)
