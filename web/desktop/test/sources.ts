import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import ts from 'typescript';

export interface Use {
  one?: string; // of a plural: the text for one
  files: string[];
}

/** Sources are what the sources of the desktop say: keys of texts, imports, and texts that are in no catalogue. */
export interface Sources {
  uses: Map<string, Use>;
  imports: Map<string, string[]>; // of a file, those that are loaded with it
  literals: string[];
  computed: string[]; // calls whose key is no literal
}

const calls = new Set(['t', 'plural', 'rich']);
const shownAttributes = new Set([
  'label', 'title', 'placeholder', 'aria-label', 'alt', 'description', 'confirm', 'hint', 'note', 'error', 'empty',
]);
const shownProperties = new Set(['label', 'title', 'text', 'hint', 'done', 'note', 'placeholder', 'confirm', 'name']);
const shownCalls = new Set(['toast', 'signOut']);

// Texts that are the same in every language.
const same = new Set([
  'Everloop', 'NAME', 'https://tools.example/mcp', 'https://hooks.example.org/everloop', '{{input.topic}}', '{{nodes.draft.output}}',
  '{{item}}', '{{loop.previous}}', '{{tick.time}}', '{{body.name}}', 'Name: value', 'NAME=value', 'report/*.md',
  'event == "push" and body.ref == "refs/heads/main"',
]);

const worded = (text: string): boolean => /\p{L}{2}/u.test(text) && !same.has(text.trim());

const shownOperators = new Set([
  ts.SyntaxKind.AmpersandAmpersandToken, ts.SyntaxKind.BarBarToken, ts.SyntaxKind.QuestionQuestionToken, ts.SyntaxKind.PlusToken,
]);

/** textOf gives the text of a literal or of several joined by +, a template with `{}` for what is filled in, or nothing. */
function textOf(node: ts.Node): string | undefined {
  if (ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.PlusToken) {
    const [left, right] = [textOf(node.left), textOf(node.right)];
    return left === undefined || right === undefined ? undefined : left + right;
  }
  if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) return node.text;
  if (ts.isTemplateExpression(node)) return node.head.text + node.templateSpans.map((span) => `{}${span.literal.text}`).join('');
  return undefined;
}

/** keysOf gives the literals that an expression may be, through `a ? 'b' : 'c'`. */
function keysOf(node: ts.Expression | undefined): string[] | undefined {
  if (!node) return undefined;
  if (ts.isParenthesizedExpression(node)) return keysOf(node.expression);
  if (ts.isConditionalExpression(node)) {
    const [yes, no] = [keysOf(node.whenTrue), keysOf(node.whenFalse)];
    return yes && no ? [...yes, ...no] : undefined;
  }
  const text = ts.isTemplateExpression(node) ? undefined : textOf(node);
  return text === undefined ? undefined : [text];
}

class Reader {
  constructor(readonly found: Sources, readonly file: string, readonly source: ts.SourceFile) {}

  private at(node: ts.Node, text: string): void {
    this.found.literals.push(`${this.file}:${this.source.getLineAndCharacterOfPosition(node.getStart()).line + 1}: ${text.trim()}`);
  }

  private call(node: ts.CallExpression, name: string): void {
    const keys = keysOf(node.arguments[name === 'plural' ? 2 : 0]);
    if (!keys) this.found.computed.push(`${this.file}: ${node.getText()}`);
    for (const key of keys ?? []) {
      const use = this.found.uses.get(key) ?? { files: [] };
      if (name === 'plural') use.one = keysOf(node.arguments[1])?.[0] ?? '';
      use.files.push(this.file);
      this.found.uses.set(key, use);
    }
    for (const [index, argument] of node.arguments.entries()) if (index >= (name === 'plural' ? 3 : 1)) this.visit(argument);
  }

  // shown looks at an expression whose value is shown.
  private shown(node: ts.Expression): void {
    const text = textOf(node);
    if (text !== undefined) {
      if (worded(text.replaceAll('{}', ''))) this.at(node, text);
      if (ts.isTemplateExpression(node)) node.templateSpans.forEach((span) => this.shown(span.expression));
    } else if (ts.isParenthesizedExpression(node)) this.shown(node.expression);
    else if (ts.isConditionalExpression(node)) {
      this.visit(node.condition);
      this.shown(node.whenTrue);
      this.shown(node.whenFalse);
    } else if (ts.isBinaryExpression(node) && shownOperators.has(node.operatorToken.kind)) {
      if (node.operatorToken.kind === ts.SyntaxKind.AmpersandAmpersandToken) this.visit(node.left);
      else this.shown(node.left);
      this.shown(node.right);
    } else if (ts.isArrayLiteralExpression(node)) node.elements.forEach((one) => this.shown(one));
    else if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)
      && ['filter', 'join'].includes(node.expression.name.text)) {
      this.shown(node.expression.expression);
    } else if (ts.isArrowFunction(node) && !ts.isBlock(node.body)) this.shown(node.body);
    else this.visit(node);
  }

  visit(node: ts.Node): void {
    if (ts.isImportDeclaration(node) || ts.isTypeNode(node)) return;
    if (ts.isJsxText(node)) {
      if (worded(node.text)) this.at(node, node.text);
    } else if (ts.isJsxAttribute(node)) {
      const { initializer } = node;
      const shown = shownAttributes.has(node.name.getText());
      if (initializer && ts.isStringLiteral(initializer)) {
        if (shown && worded(initializer.text)) this.at(node, initializer.text);
      } else if (initializer && ts.isJsxExpression(initializer) && initializer.expression) {
        if (shown) this.shown(initializer.expression);
        else this.visit(initializer.expression);
      }
    } else if (ts.isJsxExpression(node)) {
      if (node.expression) this.shown(node.expression);
    } else if (ts.isPropertyAssignment(node) && shownProperties.has(node.name.getText())) {
      const text = textOf(node.initializer);
      // One word without a capital is a value of a program: `name: 'desktop'`.
      if (text === undefined || / |^\p{Lu}/u.test(text)) this.shown(node.initializer);
    } else if (ts.isCallExpression(node) && ts.isIdentifier(node.expression) && calls.has(node.expression.text))
      this.call(node, node.expression.text);
    else if (ts.isCallExpression(node) && ts.isIdentifier(node.expression) && shownCalls.has(node.expression.text)) {
      node.arguments.forEach((one, index) => (index === 0 ? this.shown(one) : this.visit(one)));
    } else if (textOf(node) !== undefined && /^\p{Lu}.*\p{L} \p{L}.*[.?!…]$/u.test(textOf(node) ?? ''))
      this.at(node, textOf(node) ?? ''); // a sentence anywhere
    else ts.forEachChild(node, (child) => this.visit(child));
  }
}

/** readSources reads all files below a directory. */
export function readSources(root: string): Sources {
  const found: Sources = { uses: new Map(), imports: new Map(), literals: [], computed: [] };
  const files = readdirSync(
    root, { recursive: true, withFileTypes: true },
  ).filter((one) => one.isFile() && /\.tsx?$/.test(one.name)).map((one) => join(one.parentPath, one.name));
  for (const path of files) {
    const file = relative(root, path);
    const source = ts.createSourceFile(
      path, readFileSync(path, 'utf8'), ts.ScriptTarget.Latest, true, path.endsWith('x') ? ts.ScriptKind.TSX : ts.ScriptKind.TS,
    );
    found.imports.set(file, source.statements.filter(ts.isImportDeclaration).filter((one) => !one.importClause?.isTypeOnly)
      .map((one) => (one.moduleSpecifier as ts.StringLiteral).text).filter((name) => name.startsWith('.')).map((name) =>
        join(dirname(file), name)));
    if (file !== join('lib', 'i18n.ts')) new Reader(found, file, source).visit(source);
  }
  return found;
}

/** loadedWith gives the files that come with some, through their imports. */
export function loadedWith({ imports }: Sources, from: readonly string[]): Set<string> {
  const loaded = new Set<string>();
  const add = (name: string): void => {
    const file = [name, `${name}.ts`, `${name}.tsx`].find((one) => imports.has(one));
    if (!file || loaded.has(file)) return;
    loaded.add(file);
    imports.get(file)?.forEach(add);
  };
  from.forEach(add);
  return loaded;
}
