// accel in JupyterLab and Notebook 7: a button that opens the panel beside the notebook, and a notice when long work is over.
// Written by hand, without a build: what webpack would make of a "federated extension" is init() and get(), at the end of this file.
(() => {
  const NEWS = "application/vnd.accel.news+json";
  const WIDGET = "jupyter-widgets-disconnected";
  const SHOW = "__import__('accel.notebook.docked', fromlist=['show']).show()"; // leaves no variable behind
  const OVER = ["restarting", "autorestarting", "terminating", "dead"];

  let lab = {}; // what JupyterLab shares with extensions

  /** The newest version that the page offers of a module: JupyterLab's own. */
  async function shared(scope, name) {
    const offers = Object.entries(scope[name]).sort(([a], [b]) => a.localeCompare(b, undefined, { numeric: true }));
    return (await offers.at(-1)[1].get())();
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
      this.line.style.cssText = "flex:none;padding:4px 8px;display:flex;gap:8px;align-items:center";
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
      this.pane.disposed.connect(() => {
        this.context.statusChanged.disconnect(this.followKernel, this);
        this.context.kernelChanged.disconnect(this.kernelGone, this);
      });
      notebook.disposed.connect(() => this.pane.dispose());
    }

    /** Beside the notebook where the shell can split; in Notebook 7 and in simple mode in the right sidebar. */
    place() {
      const { shell } = this.app;
      if (shell.mode === "multiple-document") {
        shell.add(this.pane, "main", { ref: this.notebook.id, mode: "split-right" });
      } else {
        shell.add(this.pane, "right");
      }
      shell.activateById(this.pane.id);
    }

    say(text, button) {
      this.line.replaceChildren(text, ...(button ? [button] : []));
      this.line.hidden = !text;
    }

    sayAgain(text) {
      const again = document.createElement("button");
      again.textContent = "Open again";
      again.className = "jp-mod-styled jp-mod-accept";
      again.onclick = () => this.open();
      this.say(text, again);
    }

    followKernel(_, status) {
      if (OVER.includes(status)) this.kernelGone();
    }

    kernelGone() {
      this.isOpen = false;
      this.sayAgain("The kernel was restarted: what stands here is from before. Run your cells again, then");
    }

    async open() {
      const kernel = this.context.session?.kernel;
      if (!kernel) return this.sayAgain("This notebook has no kernel. Start one, then");
      const { language_info: language } = await kernel.info;
      if (language.name !== "python") return this.sayAgain(`accel needs Python, and this kernel speaks ${language.name}. Change it, then`);
      this.say(kernel.status === "busy" ? "The panel opens when the running cell is over." : "Opening …");
      const asked = kernel.requestExecute({ code: SHOW, silent: true, store_history: false, allow_stdin: false, stop_on_error: false });
      this.area.future = asked;
      const { content } = await asked.done;
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
    if (!beside || beside.pane.isDisposed) {
      besides.set(notebook, (beside = new Beside(app, notebook)));
      beside.place();
    } else {
      app.shell.activateById(beside.pane.id);
    }
    if (!beside.isOpen) await beside.open();
  }

  /** What a kernel publishes for an output that no page has: nothing is saved of it, and other frontends pass over it. */
  function hear(app, message) {
    const news = message.header.msg_type === "update_display_data" && message.content.data[NEWS];
    if (news?.kind !== "toast") return;
    void app.commands.execute("apputils:notify", { message: String(news.text), type: "info", options: { autoClose: 10000 } });
  }

  const heard = new WeakSet();

  const plugin = {
    id: "accel-workbench:plugin",
    autoStart: true,
    activate(app) {
      app.docRegistry.addWidgetExtension("Notebook", {
        createNew(notebook, context) {
          const button = new lab.ToolbarButton({
            label: "accel",
            tooltip: "Open the accel panel beside this notebook",
            onClick: () => openBeside(app, notebook),
          });
          notebook.toolbar.insertItem(10, "accel", button);
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
