import type { Schemas } from '@everloop/sdk';
import { t } from '../../lib/i18n';

export type Node = Schemas['Node'];
export type Edge = Schemas['Edge'];
export type Graph = Schemas['Graph'];
export type Finding = Schemas['Finding'];
export type NodeType = Node['type'];

/** types are the nodes that can be added. */
export const types: NodeType[] = ['start', 'agent', 'tool', 'code', 'human', 'condition', 'join', 'map', 'loop', 'subflow', 'wait', 'end'];

export const typeNames: Record<NodeType, string> = {
  start: t('Start|node'),
  agent: t('Agent'),
  tool: t('Tool'),
  human: t('Person'),
  condition: t('Condition'),
  join: t('Join'),
  map: t('Map'),
  loop: t('Loop'),
  subflow: t('Subflow'),
  wait: t('Wait'),
  end: t('End'),
  code: t('Code'),
};

export const size = { width: 190, height: 58 };
const gap = { x: 34, y: 48 };

/**
 * layered gives each node a place: rows by the longest way to it, and in a row by where the nodes before it are. A node
 * keeps the position that it has.
 */
export function layered(graph: Graph): Map<string, { x: number; y: number }> {
  const nodes = graph.nodes ?? [];
  const edges = (graph.edges ?? []).filter((edge) => edge.source !== edge.target);
  const row = new Map(nodes.map((node) => [node.id, 0]));
  // Bounded by the number of nodes, so that a cycle ends, too.
  for (let round = 0, changed = true; changed && round < nodes.length; round++) {
    changed = false;
    for (const { source, target } of edges) {
      const from = row.get(source);
      const to = row.get(target);
      if (from === undefined || to === undefined || to > from || from + 1 >= nodes.length) continue;
      row.set(target, from + 1);
      changed = true;
    }
  }
  const rows: string[][] = [];
  for (const node of nodes) (rows[row.get(node.id) ?? 0] ??= []).push(node.id);
  const placed = new Map<string, number>(); // from the middle of the row
  const places = new Map<string, { x: number; y: number }>();
  for (const [y, ids] of [...rows.entries()].filter(([, list]) => list)) {
    const wanted = (id: string): number => {
      const before = edges.filter((edge) => edge.target === id && placed.has(edge.source)).map((edge) => placed.get(edge.source) ?? 0);
      return before.length === 0 ? 0 : before.reduce((sum, one) => sum + one, 0) / before.length;
    };
    const sorted = ids.map((id) => ({ id, wanted: wanted(id) })).sort((a, b) => a.wanted - b.wanted);
    for (const [index, one] of sorted.entries()) {
      const at = index - (sorted.length - 1) / 2;
      placed.set(one.id, at);
      places.set(one.id, { x: at * (size.width + gap.x), y: y * (size.height + gap.y) });
    }
  }
  for (const node of nodes) if (node.position) places.set(node.id, { x: node.position.x, y: node.position.y });
  return places;
}

/** freeId is an id that nothing of the list has: agent, agent_2, agent_3. */
export function freeId(wanted: string, taken: readonly { id: string }[]): string {
  const used = new Set(taken.map((one) => one.id));
  if (!used.has(wanted)) return wanted;
  let number = 2;
  while (used.has(`${wanted}_${number}`)) number++;
  return `${wanted}_${number}`;
}

/** added gives the graph with a new node, after `before` when it is given. */
export function added(graph: Graph, type: NodeType, before?: string): { graph: Graph; id: string } {
  const nodes = graph.nodes ?? [];
  const edges = graph.edges ?? [];
  const id = freeId(type === 'human' ? 'ask' : type, nodes);
  const source = nodes.find((one) => one.id === before);
  const edge: Edge[] =
    source && source.type !== 'end' && type !== 'start' ? [{ id: freeId(`${source.id}-${id}`, edges), source: source.id, target: id }] : [];
  return { id, graph: { ...graph, nodes: [...nodes, { id, type }], edges: [...edges, ...edge] } };
}

/** connected gives the graph with an edge more; one that is there already is not made twice. */
export function connected(graph: Graph, source: string, target: string): Graph {
  const edges = graph.edges ?? [];
  if (source === target || edges.some((one) => one.source === source && one.target === target && !one.source_handle && !one.condition))
    return graph;
  return { ...graph, edges: [...edges, { id: freeId(`${source}-${target}`, edges), source, target }] };
}

/** replaced gives the graph with a changed node; edges, and the files and workspaces of others, follow when its id is another. */
export function replaced(graph: Graph, id: string, node: Node): Graph {
  const follow = (end: string): string => (end === id ? node.id : end);
  const other = (one: Node): Node => ({
    ...one,
    ...(one.inputs_files ? { inputs_files: one.inputs_files.map((of) => ({ ...of, from: follow(of.from) })) } : {}),
    ...(one.workspace ? { workspace: follow(one.workspace) } : {}),
  });
  return {
    ...graph, nodes: (graph.nodes ?? []).map((one) => (one.id === id ? node : node.id === id ? one : other(one))),
    ...(node.id === id ? {} : {
      edges: (graph.edges ?? []).map((one) => ({ ...one, source: follow(one.source), target: follow(one.target) })),
      steps: (graph.steps ?? []).map((one) => ({ ...one, node_id: follow(one.node_id) })),
    }),
  };
}

/** removed gives the graph without a node and its edges. */
export function removed(graph: Graph, id: string): Graph {
  return {
    ...graph,
    nodes: (graph.nodes ?? []).filter((one) => one.id !== id),
    edges: (graph.edges ?? []).filter((one) => one.source !== id && one.target !== id),
    steps: (graph.steps ?? []).filter((one) => one.node_id !== id),
  };
}

/** set gives an object with a field, or without it when it is empty. */
export function set<Of extends object, Key extends keyof Of>(of: Of, key: Key, value: Of[Key] | undefined | ''): Of {
  const { [key]: _, ...rest } = of;
  return (value === undefined || value === '' ? rest : { ...rest, [key]: value }) as Of;
}

/** inputsOf are the inputs of a run as its start wants them, empty. */
export function inputsOf(graph: Graph): Record<string, unknown> {
  const schema = graph.nodes?.find((one) => one.type === 'start')?.output_schema;
  const properties = (schema?.properties ?? {}) as Record<string, { type?: string } | undefined>;
  const names = new Set([
    ...Object.keys(properties),
    ...(Array.isArray(schema?.required) ? (schema.required as string[]) : []),
    ...mentioned(graph),
  ]);
  const empty: Record<string, unknown> = { number: 0, integer: 0, boolean: false, array: [], object: {} };
  return Object.fromEntries([...names].map((name) => [name, empty[properties[name]?.type ?? ''] ?? '']));
}

// mentioned are the fields of the input that the nodes refer to.
function mentioned(graph: Graph): string[] {
  return [...JSON.stringify(graph.nodes ?? []).matchAll(/\{\{\s*input\.([A-Za-z_]\w*)/g)].map((found) => found[1] ?? '');
}
