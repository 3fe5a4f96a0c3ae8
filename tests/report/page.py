#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Open a page of 'revdedupctl report' in a browser, and ask it.

Each STEP is an expression of JavaScript, or "key:NAME" to press a key (Tab, ArrowRight and so on).
The values of expressions are printed as JSON, a line each. It fails where the page prints an error,
or asks anything of a network or of another file; with --axe also where that library, a file, finds
something wrong for readers with other means.
"""
import argparse
import json
import os
import sys
import tempfile

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

KEYS = {"Tab": Keys.TAB, "ArrowRight": Keys.ARROW_RIGHT, "ArrowLeft": Keys.ARROW_LEFT,
        "ArrowUp": Keys.ARROW_UP, "ArrowDown": Keys.ARROW_DOWN, "End": Keys.END,
        "Enter": Keys.ENTER}


def start(args):
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for option in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                   "--disable-dev-shm-usage", f"--window-size={args.width},{args.height}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    # A window is not made as narrow as a telephone.
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": args.width, "height": args.height, "deviceScaleFactor": 1, "mobile": False})
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
        {"name": "prefers-color-scheme", "value": args.scheme}]})
    return driver


def requests(driver):
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            yield message["params"]["request"]["url"]


def check_axe(driver, path):
    with open(path, encoding="utf-8") as file:
        driver.execute_script(file.read())
    found = driver.execute_async_script(
        "axe.run().then(result => arguments[0](result.violations))")
    for one in found:
        print(f"axe: {one['id']}: {one['help']}")
        for node in one["nodes"][:5]:
            print(f"  {node['html'][:200]}")
    return not found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=1100)
    parser.add_argument("--height", type=int, default=900)
    parser.add_argument("--scheme", default="light")
    parser.add_argument("--shot", help="a file for a picture of the whole page")
    parser.add_argument("--axe", help="the file axe.js")
    parser.add_argument("page")
    parser.add_argument("step", nargs="*")
    args = parser.parse_args()
    url = "file://" + os.path.realpath(args.page)
    driver = start(args)
    good = True
    try:
        driver.get(url)
        for step in args.step:
            if step.startswith("key:"):
                ActionChains(driver).send_keys(KEYS[step[4:]]).perform()
            else:
                print(json.dumps(driver.execute_script("return (" + step + ")")))
        if args.axe:
            good = check_axe(driver, args.axe)
        for entry in driver.get_log("browser"):
            print(f"the page says: {entry['message']}")
            good = False
        for other in requests(driver):
            if other != url and not other.startswith("data:"):
                print(f"the page asks for {other}")
                good = False
        if args.shot:
            height = driver.execute_script("return document.documentElement.scrollHeight")
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
                "width": args.width, "height": height, "deviceScaleFactor": 1, "mobile": False})
            driver.save_screenshot(args.shot)
    finally:
        driver.quit()
    return 0 if good else 1


# The browser leaves files where it keeps temporary ones.
with tempfile.TemporaryDirectory() as directory:
    os.environ["TMPDIR"] = directory
    status = main()
sys.exit(status)
