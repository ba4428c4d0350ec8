import '@xyflow/react/dist/base.css';
import {
  Background,
  type Connection,
  Controls,
  type Edge as FlowEdge,
  Handle,
  MarkerType,
  type Node as FlowNode,
  type NodeProps,
  Position,
  ReactFlow,
  ReactFlowProvider,
  useNodesState,
  useReactFlow,
} from '@xyflow/react';
import {
  Bot,
  CircleHelp,
  CirclePlay,
  CircleStop,
  Code as CodeIcon,
  GitFork,
  Hourglass,
  Merge,
  Layers,
  Repeat,
  Split,
  User,
  Wrench,
} from 'lucide-react';
import { type ComponentType, type CSSProperties, memo, useEffect, useMemo, useRef } from 'react';
import { cn } from '../../lib/cn';
import { plural, t } from '../../lib/i18n';
import { word } from '../../lib/words';
import { type Graph, layered, type NodeType, size, typeNames } from './graph';

/** Mark is what is shown at a node besides its name. */
export interface Mark {
  status?: string;
  note?: string;
  errors?: number;
  warnings?: number;
}

interface Shown extends Record<string, unknown> {
  label: string;
  icon: Icon;
  kind: string; // the name of its type
  target: boolean; // edges lead to it
  source: boolean; // edges leave it
  mark: Mark;
  chosen: boolean;
  linkable: boolean;
}

type Icon = ComponentType<{ size?: number; className?: string }>;

export const typeIcons: Record<NodeType, Icon> = {
  start: CirclePlay,
  agent: Bot,
  tool: Wrench,
  human: User,
  condition: Split,
  join: Merge,
  map: Layers,
  loop: Repeat,
  subflow: GitFork,
  wait: Hourglass,
  end: CircleStop,
  code: CodeIcon,
};

const borders: Record<string, string> = {
  running: 'border-accent',
  ready: 'border-accent',
  waiting: 'border-warn',
  completed: 'border-good',
  reused: 'border-good',
  failed: 'border-bad',
  cancelled: 'border-bad',
};
const inks: Record<string, string> = {
  running: 'text-accent',
  ready: 'text-accent',
  waiting: 'text-warn',
  completed: 'text-good',
  reused: 'text-good',
  failed: 'text-bad',
  cancelled: 'text-bad',
};

const Box = memo(function Box({ data }: NodeProps<FlowNode<Shown>>) {
  const { label, icon: Icon, kind, mark, chosen, linkable } = data;
  const errors = plural(mark.errors ?? 0, '{count} error', '{count} errors');
  const warnings = plural(mark.warnings ?? 0, '{count} warning', '{count} warnings');
  return (
    <div
      style={size}
      className={cn(
        'flex items-center gap-2 rounded-lg border-2 bg-raised px-2.5 text-left',
        mark.errors ? 'border-bad' : (borders[mark.status ?? ''] ?? 'border-line-strong'),
        chosen && 'ring-2 ring-accent ring-offset-1 ring-offset-bg',
        mark.status === 'skipped' && 'border-dashed opacity-60',
      )}
    >
      {data.target && <Handle type="target" position={Position.Top} isConnectable={linkable} />}
      <Icon size={18} className={cn('shrink-0', inks[mark.status ?? ''] ?? 'text-soft')} />
      <span className="min-w-0 flex-1 leading-tight">
        <span className="block truncate text-sm font-medium" dir="auto">
          {label}
        </span>
        <span className={cn('flex items-center gap-1 truncate text-xs', inks[mark.status ?? ''] ?? 'text-soft')}>
          {mark.status === 'running' && <span className="size-1.5 animate-pulse rounded-full bg-accent" aria-hidden />}
          {mark.status === 'waiting' && <CircleHelp size={12} aria-hidden />}
          {mark.status ? `${word(mark.status)}${mark.note ? ` · ${mark.note}` : ''}` : kind}
        </span>
      </span>
      {(mark.errors ?? 0) > 0 && (
        <span
          className="absolute -top-2 -right-2 grid size-5 place-items-center rounded-full bg-bad text-xs font-bold text-bg"
          title={errors}
        >
          <span aria-hidden>{mark.errors}</span>
          <span className="sr-only">{errors}</span>
        </span>
      )}
      {!mark.errors && (mark.warnings ?? 0) > 0 && (
        <span
          className="absolute -top-2 -right-2 grid size-5 place-items-center rounded-full bg-warn text-xs font-bold text-bg"
          title={warnings}
        >
          <span aria-hidden>{mark.warnings}</span>
          <span className="sr-only">{warnings}</span>
        </span>
      )}
      {data.source && <Handle type="source" position={Position.Bottom} isConnectable={linkable} />}
    </div>
  );
});

const nodeTypes = { box: Box };
const colours = {
  '--xy-background-color': 'var(--bg)',
  '--xy-background-pattern-color': 'var(--line)',
  '--xy-edge-stroke': 'var(--line-strong)',
  '--xy-edge-stroke-selected': 'var(--accent)',
  '--xy-edge-label-color': 'var(--ink)',
  '--xy-edge-label-background-color': 'var(--bg)',
  '--xy-handle-background-color': 'var(--line-strong)',
  '--xy-handle-border-color': 'var(--bg)',
  '--xy-controls-button-background-color': 'var(--raised)',
  '--xy-controls-button-background-color-hover': 'var(--hover)',
  '--xy-controls-button-color': 'var(--ink)',
  '--xy-controls-button-color-hover': 'var(--ink)',
  '--xy-controls-button-border-color': 'var(--line)',
  '--xy-connectionline-stroke': 'var(--accent)',
} as CSSProperties;

/** Drawn is what is drawn: a DAG, or another document in its form. */
export interface Drawn {
  nodes?: { id: string; name?: string; type: string; position?: { x: number; y: number } }[] | null;
  edges?: Graph['edges'];
}

/** Look is how the nodes of a type look. */
export interface Look {
  icon: Icon;
  name: string;
  first?: boolean; // no edge leads to it
  last?: boolean; // no edge leaves it
}

const lookOf = (type: string): Look => ({
  icon: typeIcons[type as NodeType] ?? Bot, name: typeNames[type as NodeType] ?? type, first: type === 'start', last: type === 'end',
});

interface CanvasProps {
  graph: Drawn;
  label?: string;
  look?: (type: string) => Look;
  marks: ReadonlyMap<string, Mark>;
  chosen: string | undefined;
  choose: (id: string | undefined) => void;
  connect?: (source: string, target: string) => void;
  place?: (id: string, position: { x: number; y: number }) => void;
}

/** Canvas draws a DAG. With `connect` and `place` edges can be drawn and nodes dragged. */
export function Canvas(props: CanvasProps) {
  return <ReactFlowProvider><Drawing {...props} /></ReactFlowProvider>;
}

function Drawing({ graph, label = t('DAG'), look = lookOf, marks, chosen, choose, connect, place }: CanvasProps) {
  const places = useMemo(() => layered(graph as Graph), [graph]);
  const linkable = connect !== undefined;
  const wanted = useMemo<FlowNode<Shown>[]>(() => (graph.nodes ?? []).map((node) => {
    const { icon, name, first, last } = look(node.type);
    return {
      id: node.id,
      type: 'box',
      position: places.get(node.id) ?? { x: 0, y: 0 },
      ariaLabel: `${name} ${node.name || node.id}`,
      data: {
        label: node.name || node.id,
        icon,
        kind: name,
        target: !first,
        source: !last,
        mark: marks.get(node.id) ?? {},
        chosen: node.id === chosen,
        linkable,
      },
    };
  }), [graph.nodes, places, marks, chosen, linkable, look]);
  const edges = useMemo<FlowEdge[]>(() => (graph.edges ?? []).map((edge) => {
    const label = edge.label || edge.source_handle || edge.condition || (edge.kind === 'error' ? t('on error') : '');
    const running = marks.get(edge.target)?.status === 'running';
    return {
      id: edge.id,
      source: edge.source,
      target: edge.target,
      label: label.length > 28 ? `${label.slice(0, 27)}…` : label,
      animated: running,
      markerEnd: { type: MarkerType.ArrowClosed, color: edge.kind === 'error' ? 'var(--bad)' : 'var(--line-strong)' },
      style: edge.kind === 'error' ? { stroke: 'var(--bad)', strokeDasharray: '5 4' } : {},
      labelBgPadding: [4, 2],
      labelBgStyle: { fill: 'var(--bg)' },
      labelStyle: { fill: 'var(--ink)', fontSize: 11 },
      focusable: false,
      selectable: false,
    };
  }), [graph.edges, marks]);
  const [nodes, setNodes, changed] = useNodesState<FlowNode<Shown>>(wanted);
  useEffect(() => {
    // What the library has measured stays.
    setNodes((was) => wanted.map((node) => ({ ...was.find((one) => one.id === node.id), ...node })));
  }, [wanted, setNodes]);
  const count = wanted.length;
  const { fitView } = useReactFlow();
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const fit = () => void fitView({ padding: 0.15, maxZoom: 1 });
    const timer = setTimeout(fit, 50); // when new nodes are measured
    const observer = new ResizeObserver(fit);
    if (box.current) observer.observe(box.current);
    return () => {
      clearTimeout(timer);
      observer.disconnect();
    };
  }, [count, fitView]);
  return (
    <div ref={box} className="h-full w-full">
      <ReactFlow
        nodes={nodes}
        edges={edges}
        nodeTypes={nodeTypes}
        style={colours}
        aria-label={label}
        minZoom={0.2}
        maxZoom={1.6}
        fitView
        fitViewOptions={{ padding: 0.15, maxZoom: 1 }}
        nodesDraggable={place !== undefined}
        nodesConnectable={linkable}
        edgesFocusable={false}
        deleteKeyCode={null}
        selectionKeyCode={null}
        multiSelectionKeyCode={null}
        proOptions={{ hideAttribution: true }}
        onNodesChange={(changes) => {
          changed(changes);
          for (const change of changes) {
            if (change.type === 'select' && change.selected) choose(change.id);
            // Arrow keys move the node that has the focus, too.
            if (change.type === 'position' && !change.dragging && change.position && place) {
              const at = places.get(change.id);
              if (!at || Math.abs(at.x - change.position.x) + Math.abs(at.y - change.position.y) > 0.5)
                place(change.id, { x: Math.round(change.position.x), y: Math.round(change.position.y) });
            }
          }
        }}
        onNodeClick={(_, node) => choose(node.id)}
        onPaneClick={() => choose(undefined)}
        onConnect={(link: Connection) => connect?.(link.source, link.target)}
      >
        <Background gap={20} color="var(--line-strong)" />
        <Controls showInteractive={false} />
      </ReactFlow>
    </div>
  );
}

