#!/usr/bin/env python3
"""Opens pages of `tilewright draw` in a real browser and compares what they show with `tilewright locate`.

Needs Chromium with its driver (Debian: chromium chromium-driver) and the package selenium; without them it says so and
succeeds. Run: python3 draw/tests/browser.py PATH/TO/tilewright [--elements 100] [--screenshots DIRECTORY]
"""
import argparse, json, os, random, shutil, subprocess, sys, tempfile, time

try:
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    sys.exit(print("skipped: the package selenium is missing") or 0)
if not (shutil.which("chromium") and shutil.which("chromedriver")):
    sys.exit(print("skipped: chromium or chromedriver is missing") or 0)

METAL = ("tensor<53x63xf32, #ttcore.metal_layout<(d0, d1) -> (d0, d1), undef, <3x2>, "
         "memref<1x1x!ttcore.tile<32 x 32, bfp_bf8>, #ttcore.memory_space<l1>>>>")
GRID = ("tensor<64x64xf32, #ttcore.metal_layout<(d0, d1) -> (d0, d1), undef, <8x8>, "
        "memref<8x8xf32, #ttcore.memory_space<l1>>>>")
STAIRCASE = ("#tt.device<workerGrid = #tt.grid<8x8, (d0, d1) -> (0, d0, (d0 + d1) mod 8)>, meshShape = 1, "
             "chipIds = [0]>")
# A name, the shape, the type, and the texts: one or two layouts of every family.
LAYOUTS = [
    ("memref", "20,30", "f32", ["--to", "memref<20x30xf32, strided<[1, 24], offset: 8>>"]),
    ("mx", "6,80", "f32", ["--to", "memref<6x80xmxfp4>"]),
    ("metal-tiles", "53,63", "f32", ["--to", METAL]),
    ("metal-staircase", "64,64", "f32", ["--to", GRID, "--device", STAIRCASE]),
    ("ttnn-tiles", "2,40,50", "f32", ["--to", "ttnn(dtype=bfloat4_b, layout=TILE)"]),
    ("ttnn-banks", "70,90", "bf16",
     ["--to", "ttnn(dtype=bfloat16, layout=TILE, memory=INTERLEAVED, banks=3, alignment=4096)"]),
    ("ttnn-cores", "90,70", "f32",
     ["--to", "ttnn(dtype=float32, layout=TILE, memory=ND_SHARDED, grid=(2, 2), shard=(32, 32), orientation=COL_MAJOR)"]),
    ("spyre", "5,10,150", "f16", ["--to", "SpyreTensorLayout((5, 10, 150), torch.float16)"]),
    ("tuple", "4,128", "f16", ["--to", "((2, 4, 64), (256, 64, 1), (64, 128, 1))"]),
    ("mesh", "1,1,128,256", "bf16",
     ["--to", "ttnn(dtype=bfloat16, layout=TILE)", "--mesh", "ShardTensor2dMesh(mesh_shape=(2, 4), dims=(2, 3))"]),
]
# Too large for single elements: each cell is a tile or a stick.
LARGE = [
    ("large-tiles", "3,1000,2000", "bf16", ["--to", "ttnn(dtype=bfloat16, layout=TILE)"]),
    ("large-blocks", "1000,2000", "f32", ["--to", "ttnn(dtype=bfloat4_b, layout=TILE)"]),
    ("large-sticks", "1000,2000", "f16", ["--to", "SpyreTensorLayout((1000, 2000), torch.float16)"]),
    ("large-metal", "1000,2000", "f32",
     ["--to", "tensor<1000x2000xf32, #ttcore.metal_layout<(d0, d1) -> (d0, d1), undef, <8x8>, "
      "memref<4x8x!ttcore.tile<32 x 32, bfp_bf8>, #ttcore.memory_space<l1>>>>"]),
]
# What locate calls it, for what the page calls it.
TERMS = ["buffer", "byte", "bit", "shared_byte", "device", "core", "chip", "y", "x", "bank", "device_index"]

checks = 0


def check(right, what):
    global checks
    checks += 1
    if not right:
        raise SystemExit(f"FAILED: {what}")


def browser():
    options = webdriver.ChromeOptions()
    for option in ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1500,1100",
                   "--hide-scrollbars"]:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


class Page:
    """A page that is open."""

    def __init__(self, driver, tool, folder, name, shape, dtype, texts):
        self.driver, self.tool, self.name = driver, tool, name
        self.tensor = ["--shape", shape, "--dtype", dtype]
        self.shape = [int(n) for n in shape.split(",")]
        self.texts = texts
        self.path = os.path.join(folder, name + ".html")
        subprocess.run([tool, "draw", *self.tensor, *texts, "--out", self.path], check=True)
        self.url = "file://" + os.path.abspath(self.path)

    def open(self, hash=""):
        self.driver.get("about:blank")
        start = time.monotonic()
        self.driver.get(self.url + hash)
        check(self.driver.execute_script("return document.documentElement.dataset.ready") == "yes", f"{self.name} opens")
        # The first picture is on the screen when the next frame has begun.
        self.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
        return time.monotonic() - start

    def locate(self, *question):
        ran = subprocess.run([self.tool, "locate", *self.tensor, *self.texts, *question, "--json"],
                             check=True, capture_output=True, text=True)
        return json.loads(ran.stdout)

    def move(self, x, y):
        for dx in (3, 0):
            self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x + dx, "y": y})

    def hover(self, panel, index):
        x, y = self.driver.execute_script("return pointOf(0, arguments[0], arguments[1])", panel, index)
        self.move(5, 5)
        self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})
        return self.shown()

    def shown(self):
        return self.driver.execute_script(
            "return Object.fromEntries([...document.querySelectorAll('#info dl:first-child dd')]"
            ".map((d) => [d.dataset.term, d.textContent]))")

    def marked(self):
        return self.driver.execute_script(
            "return [0].map((n) => marks(n)[0]).map((m) => m ? [m.cell, m.slots.length] : null)[0]")

    def logs(self):
        """What the console says, and the addresses that the page asked for."""
        console = [entry["message"] for entry in self.driver.get_log("browser")]
        asked = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.append(message["params"]["request"]["url"])
        return console, [url for url in asked if not url.startswith(("file:", "data:", "about:"))]


def text(value):
    return "(" + ", ".join(map(str, value)) + ")" if isinstance(value, list) else str(value)


def hovers(page, elements, dice):
    """Both panels show, for random elements, what locate says."""
    for _ in range(elements):
        index = [dice.randrange(n) for n in page.shape]
        said = page.locate("--index", ",".join(map(str, index)))
        place = said["places"][0]
        shown = page.hover("logical", index)
        check(shown.get("index") == f"[{', '.join(map(str, index))}]", f"{page.name} {index}: {shown}")
        for term in TERMS:
            name = term.replace("_", " ")
            if place.get(term) is not None and (term != "bit" or name in shown or place["bit"]):
                check(shown.get(name) == text(place[term]), f"{page.name} {index} {term}: {shown} is not {place}")
        cell, slots = page.marked()
        check(cell >= 0 and slots >= len(said["places"]), f"{page.name} {index}: both panels are marked")
        shown = page.hover("memory", index)
        everything = shown.get("index", "") + shown.get("elements", "")
        check(f"[{', '.join(map(str, index))}]" in everything, f"{page.name} {index} in memory: {shown}")
        check(shown["buffer"] == str(place["buffer"]), f"{page.name} {index}: {shown}")


def searches(page, dice):
    """The search box takes an index and a byte, says what is wrong, and the address keeps the view."""
    driver = page.driver
    box = driver.find_element(By.ID, "search")
    index = [dice.randrange(n) for n in page.shape]
    words = ",".join(map(str, index))
    place = page.locate("--index", words)["places"][0]
    page.move(5, 5)

    def find(what):
        box.clear()
        box.send_keys(what, Keys.ENTER)
        return page.shown()

    check(find(words).get("byte") == str(place["byte"]), f"{page.name}: search for {words}")
    check(f"index={words}" in driver.current_url, f"{page.name}: the address is {driver.current_url}")
    kept = driver.current_url[len(page.url):]
    shown = find(f"{place['buffer']}:{hex(place['byte'])}")
    check(f"[{', '.join(map(str, index))}]" in shown.get("index", "") + shown.get("elements", ""), f"{page.name}: {shown}")
    box.clear()
    box.send_keys("99999999,1", Keys.ENTER)
    check(driver.find_element(By.ID, "said").text.startswith("no such index"), f"{page.name}: a wrong index")
    page.open(kept)
    check(page.shown().get("byte") == str(place["byte"]), f"{page.name}: the address {kept} keeps the view")


def insides(page, elements, dice):
    """Where cells are tiles or sticks, a search shows the element itself, and so does the picture of its cell."""
    page.open()
    driver = page.driver
    box = driver.find_element(By.ID, "search")
    for _ in range(elements):
        index = [dice.randrange(n) for n in page.shape]
        place = page.locate("--index", ",".join(map(str, index)))["places"][0]
        page.move(5, 5)
        box.clear()
        box.send_keys(",".join(map(str, index)), Keys.ENTER)
        shown = page.shown()
        check(shown.get("index") == f"[{', '.join(map(str, index))}]", f"{page.name} {index}: {shown}")
        for term in ["buffer", "byte", "bit", "shared_byte", "device_index"]:
            name = term.replace("_", " ")
            if place.get(term) is not None and (term != "bit" or name in shown):
                check(shown.get(name) == text(place[term]), f"{page.name} {index} {term}: {shown} is not {place}")
        # The first element of the same cell, in the picture of the cell.
        x, y = driver.execute_script(
            "insides[0].canvas.scrollIntoView({block: 'center'});"
            "const at = insides[0].canvas.getBoundingClientRect(); return [at.left + 2, at.top + 2]")
        driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})
        shown = page.shown()
        first = [int(n) for n in shown["index"].strip("[]").split(", ")]
        place = page.locate("--index", ",".join(map(str, first)))["places"][0]
        check(shown["byte"] == str(place["byte"]), f"{page.name} {first}: {shown} is not {place}")


def keys(page):
    """The arrow keys move in the panel that has the focus."""
    panel = page.driver.find_elements(By.CSS_SELECTOR, ".scroll")[0]
    page.open("#index=" + ",".join("0" for _ in page.shape))
    panel = page.driver.find_elements(By.CSS_SELECTOR, ".scroll")[0]
    panel.send_keys(Keys.ARROW_RIGHT)
    check(page.shown()["index"] == "[" + ", ".join(["0"] * (len(page.shape) - 1) + ["1"]) + "]", f"{page.name}: arrow")


def quiet(page):
    console, asked = page.logs()
    check(not console, f"{page.name}: the console says {console}")
    check(not asked, f"{page.name}: the page asks for {asked}")


def photograph(driver, folder, name, page, hash, scheme, size):
    driver.set_window_size(*size)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    page.open(hash)
    driver.save_screenshot(os.path.join(folder, name + ".png"))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("tool")
    arguments.add_argument("--elements", type=int, default=100)
    arguments.add_argument("--screenshots")
    arguments.add_argument("--only-screenshots", action="store_true")
    given = arguments.parse_args()
    dice = random.Random(2026)
    with tempfile.TemporaryDirectory() as folder:
        driver = browser()
        try:
            pages = [Page(driver, given.tool, folder, *layout) for layout in LAYOUTS]
            large = Page(driver, given.tool, folder, "large", "4096,4096", "bf16", ["--to", "ttnn(dtype=bfloat16, layout=TILE)"])
            zoomed = [Page(driver, given.tool, folder, *layout) for layout in LARGE]
            two = Page(driver, given.tool, folder, "two", "64,96", "f32",
                       ["--from", "ttnn(dtype=float32, layout=TILE, memory=HEIGHT_SHARDED, grid=(1, 2), shard=(32, 96))",
                        "--to", "ttnn(dtype=float32, layout=TILE, memory=WIDTH_SHARDED, grid=(1, 3), shard=(64, 32))"])
            if not given.only_screenshots:
                for page in pages:
                    page.open()
                    hovers(page, given.elements, dice)
                    searches(page, dice)
                    keys(page)
                    quiet(page)
                    print(f"{page.name}: {os.path.getsize(page.path)} bytes, {given.elements} elements")
                seconds = large.open()
                quiet(large)
                print(f"4096x4096: {os.path.getsize(large.path)} bytes, opens in {seconds:.2f} s")
                check(seconds < 2, f"4096x4096 opens in {seconds:.2f} s")
                for page in zoomed:
                    insides(page, given.elements // 3, dice)
                    quiet(page)
                    print(f"{page.name}: {os.path.getsize(page.path)} bytes, {given.elements // 3} elements")
                two.open("#index=40,50")
                quiet(two)
                lists = driver.find_elements(By.CSS_SELECTOR, "#info dl")
                check(len(lists) == 2, "both layouts are shown")
            if given.screenshots:
                os.makedirs(given.screenshots, exist_ok=True)
                by_name = {page.name: page for page in [*pages, *zoomed, large, two]}
                wide, narrow = (1440, 1000), (500, 1000)
                for name, page, hash, scheme, size in [
                    ("light", "metal-tiles", "#index=20,40", "light", wide),
                    ("dark", "metal-tiles", "#index=20,40", "dark", wide),
                    ("narrow", "metal-tiles", "#index=20,40", "light", narrow),
                    ("mesh", "mesh", "#index=0,0,70,130", "light", wide),
                    ("sticks", "spyre", "#index=2,3,100", "light", wide),
                    ("two", "two", "#index=40,50", "light", wide),
                    ("large", "large-blocks", "#index=700,900", "light", (1440, 1500)),
                    ("staircase", "metal-staircase", "#index=9,9", "dark", wide),
                    ("banks", "ttnn-banks", "#index=9,9", "light", wide),
                    ("zoomed", "metal-tiles", "#index=20,40&label=index&zoom=6,3", "light", wide),
                ]:
                    photograph(driver, given.screenshots, name, by_name[page], hash, scheme, size)
        finally:
            driver.quit()
    print(f"passed: {checks} checks")


main()
