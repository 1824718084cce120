import { mount } from "svelte";
import App from "./App.svelte";
import "uplot/dist/uPlot.min.css";
import "./page.css";

const chosen = localStorage.getItem("xoe-pool-theme");
if (chosen) document.documentElement.dataset.theme = chosen;
mount(App, { target: document.getElementById("app")! });
