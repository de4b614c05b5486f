// accel in JupyterLab and Notebook 7: a button that opens the panel next to the notebook, and a notice when long work is over.
// Written by hand, without a build: what webpack would make of a "federated extension" is init() and get(), at the end of this file.
(() => {
  const NEWS = "application/vnd.accel.news+json";
  const SHOW = "__import__('accel.notebook.docked', fromlist=['show']).show()"; // leaves no variable behind
  const SIDEBAR_SHARE = 0.42;
  const OVER = ["restarting", "autorestarting", "terminating", "dead"];

  let lab = {}; // what JupyterLab shares with extensions

  /** The newest version that the page offers of a module: JupyterLab's own. */
  async function shared(scope, name) {
    const offers = Object.entries(scope[name] ?? {}).sort(([a], [b]) => a.localeCompare(b, undefined, { numeric: true }));
    return offers.length ? (await offers.at(-1)[1].get())() : {};
  }

  /** The panel of one notebook in a pane of its own; a line above it says what is going on, and opens it again. */
  class Beside {
    constructor(app, notebook) {
      this.app = app;
      this.notebook = notebook;
      this.context = notebook.context.sessionContext;
      this.line = document.createElement("div");
      this.line.setAttribute("role", "status");
      this.line.dataset.testid = "accel-docked-line";
      this.line.style.cssText = "flex:none;padding:4px 8px;gap:8px;align-items:center";
      this.area = new lab.SimplifiedOutputArea({
        model: new lab.OutputAreaModel({ trusted: true }),
        rendermime: notebook.content.rendermime,
      });
      this.area.node.style.cssText = "flex:1;overflow:auto;padding:0 8px";
      this.pane = new lab.Panel();
      this.pane.id = `accel-beside-${notebook.id}`;
      this.pane.addClass("accel-docked");
      this.pane.node.style.cssText = "display:flex;flex-direction:column;background:var(--jp-layout-color1)";
      this.pane.title.label = this.pane.title.caption = `accel · ${notebook.title.label}`;
      this.pane.title.closable = true;
      this.pane.addWidget(new lab.Widget({ node: this.line }));
      this.pane.addWidget(this.area);
      this.context.statusChanged.connect(this.followKernel, this);
      this.context.kernelChanged.connect(this.kernelGone, this);
      notebook.disposed.connect(() => {
        this.context.statusChanged.disconnect(this.followKernel, this);
        this.context.kernelChanged.disconnect(this.kernelGone, this);
        this.pane.dispose();
      });
    }

    /** Next to the notebook where the shell can split; in Notebook 7 and in simple mode in the right sidebar. */
    place() {
      const { shell } = this.app;
      if (shell.mode === "multiple-document") {
        shell.add(this.pane, "main", { ref: this.notebook.id, mode: "split-right" });
      } else {
        shell.add(this.pane, "right");
      }
      shell.activateById(this.pane.id);
      if (shell.mode !== "multiple-document") requestAnimationFrame(() => this.widen());
    }

    /** A sidebar opens too narrow for the panel. */
    widen() {
      let split = this.pane.parent;
      while (split && !split.setRelativeSizes) split = split.parent;
      const sizes = split?.relativeSizes() ?? [];
      if (sizes.length < 2 || sizes.at(-1) >= SIDEBAR_SHARE) return;
      sizes[sizes.length - 2] += sizes.at(-1) - SIDEBAR_SHARE;
      sizes[sizes.length - 1] = SIDEBAR_SHARE;
      split.setRelativeSizes(sizes);
    }

    say(text, button) {
      this.line.replaceChildren(text, ...(button ? [button] : []));
      this.line.style.display = text ? "flex" : "none";
    }

    sayAgain(text) {
      const again = document.createElement("button");
      again.textContent = "Open again";
      again.className = "jp-mod-styled jp-mod-accept";
      again.style.cssText = "flex:none;white-space:nowrap";
      again.onclick = () => this.open();
      this.say(text, again);
    }

    followKernel(_, status) {
      if (OVER.includes(status)) this.kernelGone();
    }

    kernelGone() {
      this.isOpen = false;
      this.sayAgain("The kernel has restarted or ended; this is how it stood. Run your training cell again, then");
    }

    async open() {
      const kernel = this.context.session?.kernel;
      if (!kernel) return this.sayAgain("This notebook has no kernel. Start one, then");
      const { language_info: language } = await kernel.info;
      if (language.name !== "python") return this.sayAgain(`accel needs Python, and this kernel speaks ${language.name}. Change it, then`);
      this.say(kernel.status === "busy" ? "The panel opens when the running cell is over." : "Opening …");
      const asked = kernel.requestExecute({ code: SHOW, silent: true, store_history: false, allow_stdin: false, stop_on_error: false });
      this.area.future = asked;
      const content = await asked.done.then((reply) => reply.content, () => null); // the kernel or the pane ended before
      if (!content) return this.kernelGone();
      this.isOpen = content.status === "ok";
      if (this.isOpen) return this.say("");
      if (content.ename === "ModuleNotFoundError") this.area.model.clear();
      this.sayAgain(
        content.ename === "ModuleNotFoundError"
          ? "This notebook's kernel has no accel: install accel-workbench into its environment, restart it, then"
          : "The panel could not be opened. After what is said below is mended,",
      );
    }
  }

  const besides = new WeakMap();

  async function openBeside(app, notebook) {
    let beside = besides.get(notebook);
    if (!beside) besides.set(notebook, (beside = new Beside(app, notebook)));
    if (beside.pane.isAttached) app.shell.activateById(beside.pane.id);
    else beside.place(); // for the first time, or after it was closed
    if (!beside.isOpen) await beside.open();
  }

  /** What a kernel publishes for an output that no page has: nothing is saved of it, and other frontends pass over it. */
  function hear(app, message) {
    const news = message.header.msg_type === "update_display_data" && message.content.data[NEWS];
    if (news?.kind !== "toast") return;
    void app.commands.execute("apputils:notify", { message: String(news.text), type: "info", options: { autoClose: 10000 } });
  }

  const heard = new WeakSet();
  const style = document.createElement("style"); // of what the line above says already
  style.textContent = ".accel-docked .accel.jupyter-widgets-disconnected::before { display: none; }";

  const plugin = {
    id: "accel-workbench:plugin",
    autoStart: true,
    activate(app) {
      if (!app.docRegistry) return; // Voila
      document.head.append(style);
      app.docRegistry.addWidgetExtension("Notebook", {
        createNew(notebook, context) {
          const button = new lab.ToolbarButton({
            label: "accel",
            tooltip: "Open the accel panel next to this notebook",
            onClick: () => openBeside(app, notebook),
          });
          notebook.toolbar.insertItem(9, "accel", button); // before the wide choice of a cell's kind, which a narrow toolbar hides
          if (!heard.has(context)) {
            heard.add(context); // a second view of the notebook shows each notice once
            context.sessionContext.iopubMessage.connect((_, message) => hear(app, message));
          }
          return button;
        },
      });
    },
  };

  const container = {
    scope: {},
    init(scope) {
      this.scope = scope;
    },
    async get() {
      const names = ["@lumino/widgets", "@jupyterlab/ui-components", "@jupyterlab/outputarea"];
      lab = Object.assign({}, ...(await Promise.all(names.map((name) => shared(this.scope, name)))));
      return () => ({ __esModule: true, default: plugin });
    },
  };
  (window._JUPYTERLAB ??= {})["accel-workbench"] = container;
})();
