const specs = JSON.parse(document.getElementById("chart-specs").textContent);
const note = document.getElementById("chart-note");

function showNote(handler, event, item, value) {
  if (value === null || value === undefined || value === "") {
    note.hidden = true;
    return;
  }
  note.textContent = "";
  for (const [name, text] of Object.entries(value)) {
    const line = document.createElement("div");
    const label = document.createElement("span");
    label.textContent = name + " ";
    line.append(label, String(text));
    note.append(line);
  }
  note.hidden = false;
  const left = Math.min(event.clientX + 14, window.innerWidth - note.offsetWidth - 8);
  note.style.left = Math.max(4, left) + "px";
  note.style.top = event.clientY + 16 + "px";
}

async function draw(place) {
  const spec = JSON.parse(JSON.stringify(specs[place.dataset.chart]));
  const stage = document.createElement("div");
  stage.className = "stage";
  stage.setAttribute("aria-hidden", "true");
  place.append(stage);
  spec.width = Math.floor(stage.clientWidth);
  try {
    await vegaEmbed(stage, spec, {
      mode: "vega",
      ast: true,
      actions: false,
      renderer: "svg",
      defaultStyle: false,
      logLevel: 1,
      tooltip: showNote,
    });
    for (const still of place.querySelectorAll(".still")) still.remove();
  } catch (error) {
    stage.remove();
    console.warn("The still picture stays: " + error);
  }
}

for (const place of document.querySelectorAll("[data-chart]")) draw(place);
