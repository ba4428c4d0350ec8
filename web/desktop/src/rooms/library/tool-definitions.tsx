import { useQuery } from '@tanstack/react-query';
import type { Schemas } from '@everloop/sdk';
import { useMemo } from 'react';
import { t } from '../../lib/i18n';
import { api, useAction } from '../../lib/query';
import { exact } from '../../lib/visible';
import { Diff, lineDiff } from '../../ui/diff';
import { FormDialog } from '../../ui/dialog';
import { Badge, Loaded } from '../../ui/page';

type Server = Schemas['McpServer'];
type Tool = Schemas['PinnedTool'];
type Definition = Schemas['ToolDefinition'];

const textOf = (definition: Definition | null | undefined): string =>
  definition
    ? exact(
      [
        definition.title,
        definition.description,
        JSON.stringify(definition.schema, null, 2),
        JSON.stringify({ read_only: definition.read_only, idempotent: definition.idempotent }),
      ].filter(Boolean).join('\n'),
    )
    : '';

function Change({ tool }: { tool: Tool }) {
  const lines = useMemo(() => lineDiff(textOf(tool.accepted), textOf(tool.proposed)), [tool]);
  return (
    <li>
      <div className="mb-1 flex items-center gap-2">
        <code className="code">{exact(tool.name)}</code>
        <Badge tone="warn">{tool.state === 'new' ? t('new') : t('changed')}</Badge>
      </div>
      <Diff lines={lines} label={t('What changed in {name}', { name: tool.name })} />
    </li>
  );
}

/** ToolDefinitions shows the changed and new tools of a server, and accepts them as they are shown. */
export function ToolDefinitions({ server, done }: { server: Server; done: () => void }) {
  const tools = useQuery({
    queryKey: ['tool-servers', 'tools', server.id], queryFn: ({ signal }) => api().listMcpServerTools(server.id, { signal }),
  });
  const proposed = (tools.data?.items ?? []).filter((tool) => tool.proposed);
  const accept = useAction(
    () => api().acceptMcpServerTools(server.id, { tools: Object.fromEntries(proposed.map((tool) => [tool.name, tool.proposed?.digest ?? ''])) }),
    { done: t('The tools were accepted.'), refresh: [['tool-servers']] },
  );
  return (
    <FormDialog
      open
      onOpenChange={done}
      title={t('Review the tools of {name}', { name: server.name })}
      description={t('This server has changed its tool definitions. Sessions cannot use the tools until you accept the change.')}
      confirm={t('Accept')}
      submit={() => accept.mutateAsync()}
    >
      <Loaded query={tools}>
        {() => (
          <ul className="max-h-96 space-y-3 overflow-auto">
            {proposed.map((tool) => <Change key={tool.name} tool={tool} />)}
          </ul>
        )}
      </Loaded>
    </FormDialog>
  );
}
