import { useQuery } from '@tanstack/react-query';
import { LogOut } from 'lucide-react';
import { useState } from 'react';
import { endOtherSignIns, endSignIn, type SignedIn, signIns } from '../../lib/auth';
import { dateTime, relative } from '../../lib/format';
import { t } from '../../lib/i18n';
import { useAction } from '../../lib/query';
import { Button, IconButton } from '../../ui/button';
import { FormDialog } from '../../ui/dialog';
import { Badge, Loaded } from '../../ui/page';
import { Row, Rows } from '../../ui/rows';

const refresh = [['sign-ins']] as const;

/** SignIns lists where the account is signed in, to end one or all others. Where the service cannot list them there is nothing. */
export function SignIns() {
  const list = useQuery({ queryKey: ['sign-ins'], queryFn: async () => await signIns() ?? null });
  const [ending, setEnding] = useState<SignedIn | 'others'>();
  const end = useAction((one: SignedIn) => endSignIn(one.id), { done: t('The sign-in was ended.'), refresh });
  const others = useAction(() => endOtherSignIns(), { done: t('All other sessions were signed out.'), refresh });
  const close = () => setEnding(undefined);
  return (
    <div className="mt-4">
      <Loaded query={list}>
        {(items) =>
          items && (
            <>
              <Rows label={t('Open sign-ins')}>
                {items.map((one) => (
                  <Row
                    key={one.id}
                    title={one.device || one.user_agent || t('unknown')}
                    badges={one.current && <Badge tone="accent">{t('this one')}</Badge>}
                    note={[
                      one.address,
                      t('since {time}', { time: dateTime(one.created_at) }),
                      t('used {time}', { time: relative(one.last_used_at) }),
                      t('ends {time}', { time: dateTime(one.expires_at) }),
                    ]
                      .filter(Boolean)
                      .join(' · ')}
                    actions={
                      !one.current && (
                        <IconButton
                          label={t('Sign out {name}', { name: one.device || one.address })}
                          onClick={() => setEnding(one)}
                        >
                          <LogOut size={15} />
                        </IconButton>
                      )
                    }
                  />
                ))}
              </Rows>
              {items.some((one) => !one.current) && (
                <div className="mt-3">
                  <Button look="danger" onClick={() => setEnding('others')}>
                    {t('Sign out all other sessions')}
                  </Button>
                </div>
              )}
            </>
          )
        }
      </Loaded>
      {ending !== undefined && (
        <FormDialog
          open
          onOpenChange={close}
          danger
          title={ending === 'others' ? t('Sign out all other sessions?') : t('End the sign-in?')}
          confirm={t('End|verb')}
          submit={() => (ending === 'others' ? others.mutateAsync() : end.mutateAsync(ending))}
          description={
            ending === 'others'
              ? t('All other browsers and programs must sign in again. API keys stay valid.')
              : t('{name} must sign in again.', { name: ending.device || ending.address })
          }
        />
      )}
    </div>
  );
}
