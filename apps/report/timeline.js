// ---- bytes over one step ---------------------------------------------------------------------------------------------
(function timeline() {
  const known = cases.filter(c => c.timeline?.seconds?.length > 1);
  if (!known.length) return;
  const view = panel("timeline", "Memory over one step", "Bytes in memory, stacked, while one step goes forward, backward and through the update. The line marks the peak.");
  const chosen = [known[0], known.find((c, i) => i > 0 && c.label !== known[0].label)], state = {by: "by_purpose"};
  const box = html("div"), last = list => list[list.length - 1];
  // Modules from first to last take the hues from blue to orange.
  const ramp = (i, count) => `hsl(${Math.round(215 - 190 * i / Math.max(1, count - 1))}, ${dark.matches ? 52 : 55}%, ${(dark.matches ? 58 : 52) + (i % 2 ? 5 : -3)}%)`;
  const outside = "outside of modules", hue = (key, i, keys) => state.by === "by_purpose" ? css(key) : key === outside ? css("data") : ramp(i, keys.filter(k => k !== outside).length);

  const marks = {  // phases, and the peak with what it was taken for
    id: "marks",
    beforeDatasetsDraw({ctx, chartArea: {left, right, top, bottom}, scales: {x}, config}) {
      const {phases} = config.options.timeline;
      ctx.save();
      phases.forEach(([name, begin], i) => {
        const from = Math.max(left, x.getPixelForValue(begin)), to = i + 1 < phases.length ? x.getPixelForValue(phases[i + 1][1]) : right;
        if (i % 2) Object.assign(ctx, {fillStyle: css("grid"), globalAlpha: .55}), ctx.fillRect(from, top, to - from, bottom - top);
        Object.assign(ctx, {fillStyle: css("soft"), globalAlpha: 1, font: "11.5px " + Chart.defaults.font.family, textBaseline: "bottom", textAlign: "left"});
        if (ctx.measureText(name).width < to - from + 2 || i + 1 === phases.length) ctx.textAlign = i && i + 1 === phases.length ? "right" : "left", ctx.fillText(name, ctx.textAlign === "right" ? right : from + 1, top - 5);
      });
      ctx.restore();
    },
    afterDatasetsDraw({ctx, chartArea: {left, right, top, bottom}, scales: {x, y}, config}) {
      const {seconds, peak} = config.options.timeline, at = x.getPixelForValue(1000 * seconds[peak.point]), height = y.getPixelForValue(peak.bytes / MiB);
      const text = `peak ${mib(peak.bytes)} MiB`;
      ctx.save();
      Object.assign(ctx, {strokeStyle: css("ink"), fillStyle: css("ink"), lineWidth: 1.2, font: "600 12px " + Chart.defaults.font.family, textBaseline: "bottom"});
      ctx.setLineDash([3, 3]);
      ctx.beginPath(), ctx.moveTo(at, bottom), ctx.lineTo(at, height), ctx.stroke();
      ctx.setLineDash([]);
      ctx.beginPath(), ctx.arc(at, height, 3.6, 0, 7), ctx.fill();
      const width = ctx.measureText(text).width, begin = Math.min(Math.max(left + 2, at - width / 2), right - width - 2);
      ctx.fillText(text, begin, Math.max(top + 14, height - 7));
      ctx.restore();
    },
  };

  function area(cell, c, top) {
    const t = c.timeline, all = t[state.by], keys = Object.keys(all).filter(key => max(all[key]) > 0);
    const phases = t.phases.map(([name, begin]) => [name, 1000 * begin]);
    return draw(cell, 300, {
      type: "line", plugins: [marks],
      data: {datasets: keys.map((key, i) => ({label: key, data: all[key].map((bytes, p) => ({x: 1000 * t.seconds[p], y: bytes / MiB})), fill: i ? "-1" : "origin", backgroundColor: hue(key, i, keys), borderColor: css("panel"), borderWidth: .6, pointRadius: 0, pointHoverRadius: 0}))},
      options: {
        timeline: {phases, seconds: t.seconds, peak: t.peak}, layout: {padding: {top: 20}},
        interaction: {mode: "index", intersect: false},
        scales: {x: {type: "linear", min: 0, max: 1000 * last(t.seconds), title: {display: true, text: t.time === "measured" ? "ms" : "predicted time, ms", align: "end"}, ticks: {maxRotation: 0, includeBounds: false}, grid: {display: false}},
                 y: {stacked: true, min: 0, max: top, ticks: {includeBounds: false}, title: {display: true, text: "MiB", align: "end"}}},
        plugins: {tooltip: {filter: item => item.raw.y > 0, itemSort: (a, b) => b.datasetIndex - a.datasetIndex, callbacks: {
          title: items => items.length ? `${number(items[0].raw.x, 1)} ms` : "",
          label: item => `${item.dataset.label}: ${mib(MiB * item.raw.y)} MiB`,
          footer: items => `together: ${mib(MiB * sum(items.map(item => item.raw.y)))} MiB`}}},
      },
    });
  }

  function standing(pair) {
    const at = (c, key) => c.timeline.by_purpose[key]?.[c.timeline.peak.point] || 0, shown = purposes.filter(key => pair.some(c => c.timeline.highest[key] > 0));
    const bar = {barPercentage: .92, categoryPercentage: .8};
    const two = pair.length > 1 ? `Upper bars: ${pair[0].label}; lower bars: ${pair[1].label}. ` : "";
    box.append(html("h3", {}, "What stood at the peak"), html("p", {class: "note"}, `${two}Filled bars sum to the peak: ${pair.map(c => mib(c.timeline.peak.bytes) + " MiB").join(" and ")}. Outlines: each purpose at its own highest.`));
    return draw(box, 60 + shown.length * (12 + 15 * pair.length), {
      type: "bar",
      data: {labels: shown, datasets: pair.flatMap((c, i) => [
        {...bar, label: c.label, stack: String(i), data: shown.map(key => at(c, key) / MiB), backgroundColor: shown.map(key => faint(css(key), i ? .55 : 1))},
        {...bar, label: c.label + ", at its own highest", stack: String(i), data: shown.map(key => c.timeline.highest[key] / MiB), backgroundColor: "transparent", borderColor: shown.map(key => css(key)), borderWidth: 1.2, borderSkipped: false},
      ])},
      options: {
        indexAxis: "y",
        scales: {x: {stacked: false, position: "top", title: {display: true, text: "MiB", align: "end"}, ticks: {maxRotation: 0}}, y: {stacked: true, grid: {display: false}, ticks: {color: css("ink"), autoSkip: false}}},
        plugins: {tooltip: {mode: "index", axis: "y", intersect: false, callbacks: {label: item => `${item.dataset.label}: ${mib(MiB * item.raw)} MiB`}}},
      },
    });
  }

  function paint() {
    const pair = chosen.filter(Boolean), keys = merged(pair.map(c => Object.keys(c.timeline[state.by]).filter(key => max(c.timeline[state.by][key]) > 0)));
    const highest = max(pair.map(c => c.timeline.peak.bytes)) / MiB, step = 10 ** Math.floor(Math.log10(highest)), top = Math.ceil(1.1 * highest / step * 4) * step / 4;
    const charts = [], grid = html("div", {class: "charts"});
    box.replaceChildren();
    legend(box, keys.map((key, i) => [key, hue(key, i, keys)]), hidden => charts.forEach(chart => {
      chart.data.datasets.forEach((d, i) => chart.setDatasetVisibility(i, !hidden.has(keys.indexOf(d.label))));
      chart.update();
    }));
    box.append(grid);
    pair.forEach((c, i) => {
      const cell = html("div", {id: `timeline-${i}`}, html("h3", {}, c.label));
      grid.append(cell);
      charts.push(area(cell, c, top));
      cell.append(html("p", {class: "note"}, `The peak came with ${c.timeline.peak.taken_for}. The largest tensors then:`), html("pre", {class: "holders"}, c.timeline.peak.holders.replace(/^ {3}/gm, "")));
    });
    standing(pair);
  }
  view.controls.append(choose("by", [["by_purpose", "purpose"], ["by_module", "module"]], "by_purpose", value => { state.by = value; paint(); }));
  if (known.length > 2) {
    const options = known.map((c, i) => [String(i), c.label]), pick = place => value => { chosen[place] = known[value]; paint(); };
    view.controls.append(choose("case", options, "0", pick(0)), choose("beside", [["", "nothing"], ...options], chosen[1] ? String(known.indexOf(chosen[1])) : "", pick(1)));
  }
  view.body.append(box);
  paint();
})();
