import type { Schemas } from '@everloop/sdk';
import { useQuery } from '@tanstack/react-query';
import { t } from '../../lib/i18n';
import { api } from '../../lib/query';
import { Check } from '../../ui/field';

export type Shares = Schemas['Share'][];

/** Sharing chooses the workspaces whose members may assign issues to an instance. */
export function Sharing({ value, change }: { value: Shares; change: (value: Shares) => void }) {
  const workspaces = useQuery({
    queryKey: ['board', 'workspaces', 'all'],
    queryFn: ({ signal }) => api().listProdWorkspaces({ query: { limit: 200 }, signal }),
  });
  const without = (id: string) => value.filter((one) => one.workspace_id !== id);
  return (
    <fieldset className="space-y-2">
      <legend className="text-sm font-medium">{t('Shared with')}</legend>
      <p className="text-sm text-soft">
        {workspaces.data?.items.length === 0
          ? t('You are in no workspace. Create one on the board to share this instance with its members.')
          : t('Members of these workspaces may assign issues to it. It works on them as you, at your expense.')}
      </p>
      {workspaces.data?.items.map(({ id, name }) => {
        const share = value.find((one) => one.workspace_id === id);
        return (
          <div key={id}>
            <Check
              label={name}
              checked={share !== undefined}
              onChange={(event) => change(event.target.checked ? [...value, { workspace_id: id, secrets: false }] : without(id))}
            />
            {share && (
              <div className="ps-6">
                <Check
                  label={t('Give its runs there my environment')}
                  hint={t(
                    'Members steer these runs. Values are masked in results, but a command can disguise them: only for members you ' +
                      'trust.',
                  )}
                  checked={share.secrets}
                  onChange={(event) => change([...without(id), { workspace_id: id, secrets: event.target.checked }])}
                />
              </div>
            )}
          </div>
        );
      })}
    </fieldset>
  );
}
