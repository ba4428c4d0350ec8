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
          ? t('You are not a member of a workspace. Create one on the board to share this instance with its members.')
          : t('Members of these workspaces can assign issues to it. It works on them with your rights and your budget.')}
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
                  label={t('Let its runs there use my environment')}
                  hint={t(
                    'Members control these runs. Values are masked in results, but a command can disguise them. Only share ' +
                      'with members you trust.',
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
